"""books, authors and copies"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.create_table(
        "authors",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("name", sa.String(120), nullable=False, unique=True),
    )
    op.create_table(
        "books",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("isbn", sa.String(10), nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("published", sa.Date),
    )
    op.create_table(
        "book_authors",
        sa.Column(
            "book_id", sa.Integer, sa.ForeignKey("books.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("author_id", sa.Integer, sa.ForeignKey("authors.id"), primary_key=True),
    )
    op.create_index("ix_book_authors_author_id", "book_authors", ["author_id"])
    op.create_table(
        "copies",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column(
            "book_id", sa.Integer, sa.ForeignKey("books.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("shelf", sa.String(10), nullable=False),
        sa.Column(
            "condition",
            sa.Enum("new", "worn", "lost", name="copy_condition"),
            server_default="new",
            nullable=False,
        ),
    )
    op.create_index("ix_copies_book_id", "copies", ["book_id"])
    op.bulk_insert(
        sa.table("books", sa.column("isbn"), sa.column("name")),
        [
            {"isbn": "0131103628", "name": "The C Programming Language"},
            {"isbn": "0262510871", "name": "Structure and Interpretation of Computer Programs"},
        ],
    )


def downgrade():
    for table in ("copies", "book_authors", "books", "authors"):
        op.drop_table(table)
    sa.Enum(name="copy_condition").drop(op.get_bind())
