"""What runs in the process of a judged solver: torch and the standard library, nothing else.

The judge copies this folder into its scratch folder and starts `main` there, so that no path to the
repository, a panel or a manifest enters that process. Its files import each other relatively.
"""
