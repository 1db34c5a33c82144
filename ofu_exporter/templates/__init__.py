"""The pages as HTML templates with their style sheets and scripts, and what fills them."""
