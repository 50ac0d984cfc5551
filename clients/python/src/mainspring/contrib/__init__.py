"""Mainspring within frameworks. Each module needs its framework; none is needed otherwise."""
