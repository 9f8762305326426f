"""One run: its configuration, its loop, measuring, saving, going on."""
