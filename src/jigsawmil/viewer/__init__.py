"""The viewer: a Bokeh application that shows a run's slides and what its models looked at."""
