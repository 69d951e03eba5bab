"""Task folders of Harbor as environments."""
