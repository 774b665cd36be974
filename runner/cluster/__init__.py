"""The one seam to whatever places work: named processes, started and found again."""
