"""Trials at listed settings, each as often as the others: for a question that no other study asks."""
