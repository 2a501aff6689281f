"""Problems as rules and limits see them: every part there, with its type."""
