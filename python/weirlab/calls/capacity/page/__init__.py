"""The page about capacity in calls: what is lost and heard over the number of calls, predicted and inside."""
