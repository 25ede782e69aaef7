"""Snapshots of the files of a workspace in an object store of Deputy's own, made with Git's plumbing, and which command
changed what between two of them. Texts, reviews and sessions do not belong here."""
