"""The toy corpus: a synchronous grammar of German and English."""
