"""Questions asked of a problem: Hermite expansion, escape from the plateau, which limit governs."""
