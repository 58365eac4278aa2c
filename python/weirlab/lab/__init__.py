"""Places where trials happen: namespaces with a real device under test, or a simulated one."""
