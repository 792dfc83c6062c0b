"""What a trial is to find out."""
