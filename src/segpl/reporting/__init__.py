"""Tables, verdicts and figures from the files of finished runs."""
