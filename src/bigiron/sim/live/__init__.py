"""A small fleet in real time, served through exporters' pages: for the demo and system tests."""
