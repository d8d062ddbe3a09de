"""Building blocks of HTML reports, charts and JUnit files."""
