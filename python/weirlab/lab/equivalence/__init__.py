"""Whether two orders of the same rules treat every packet alike: both are loaded and tried with packets."""
