"""The generator of gnfuse: problem text -> variants -> rendered sources -> kernel pack. Build time only."""

VERSION = "0.1.0"
