"""The agent: reads engines' metrics and answers HAProxy's agent-check with weights."""
