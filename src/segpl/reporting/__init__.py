"""What people look at: tables and figures, made from the files that a run leaves behind."""
