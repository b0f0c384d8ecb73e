"""`segpl view`: scans, masks and uncertainty in the browser, to be accepted or corrected."""
