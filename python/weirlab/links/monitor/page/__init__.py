"""The page about link monitors: what they record, where frames are lost, what they cost the link."""
