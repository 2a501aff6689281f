"""Problems as rules and limits see them: parsed once, every part there and with its type."""
