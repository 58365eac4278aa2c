"""Planning with fitted models: which device, up to which load, with how many rules, for which traffic.

Pure. A :class:`~weirlab.model.planning.planner.PlanningQuestion` says what is given and what to find;
:func:`~weirlab.model.planning.planner.answer` answers it with one model.
"""
