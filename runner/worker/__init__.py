"""The process that serves one version of a policy: started with one line, watched by a pipe, spoken to over TLS."""
