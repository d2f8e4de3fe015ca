"""long ISBNs, tags, details, fines in cents"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"


def upgrade():
    with op.get_context().autocommit_block():
        op.execute("ALTER TYPE copy_condition ADD VALUE IF NOT EXISTS 'good' BEFORE 'worn'")
    op.alter_column("books", "name", new_column_name="title")
    op.alter_column("books", "isbn", type_=sa.String(13))
    op.add_column(
        "books",
        sa.Column(
            "tags",
            postgresql.ARRAY(sa.String(20)),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
    )
    op.add_column(
        "books",
        sa.Column(
            "details", postgresql.JSONB, server_default=sa.text("'{}'"), nullable=False
        ),
    )
    op.create_check_constraint("isbn_length", "books", "length(isbn) IN (10, 13)")
    op.create_index("books_lower_title", "books", [sa.text("lower(title)")])
    op.alter_column(
        "members",
        "balance",
        type_=sa.Numeric(8, 2),
        server_default=sa.text("0"),
        postgresql_using="balance / 100.0",
    )
    op.create_index(
        "loans_open",
        "loans",
        ["copy_id"],
        unique=True,
        postgresql_where=sa.text("returned IS NULL"),
    )
    op.execute("UPDATE books SET tags[1] = 'classic' WHERE published < '1990-01-01'")
    op.execute("""UPDATE books SET details = '{"pages": 274}' WHERE isbn = '0131103628'""")


def downgrade():
    op.drop_index("loans_open", "loans")
    op.alter_column(
        "members",
        "balance",
        type_=sa.Integer,
        server_default=sa.text("0"),
        postgresql_using="(balance * 100)::integer",
    )
    op.drop_index("books_lower_title", "books")
    op.drop_constraint("isbn_length", "books")
    op.drop_column("books", "details")
    op.drop_column("books", "tags")
    op.alter_column("books", "isbn", type_=sa.String(10), postgresql_using="left(isbn, 10)")
    op.alter_column("books", "title", new_column_name="name")
    # A label cannot be dropped: a type without it takes the type's place.
    op.execute("UPDATE copies SET condition = 'worn' WHERE condition = 'good'")
    op.execute("ALTER TYPE copy_condition RENAME TO copy_condition_with_good")
    op.execute("CREATE TYPE copy_condition AS ENUM ('new', 'worn', 'lost')")
    op.execute("ALTER TABLE copies ALTER condition DROP DEFAULT")
    op.execute(
        "ALTER TABLE copies ALTER condition TYPE copy_condition USING condition::text::copy_condition"
    )
    op.execute("ALTER TABLE copies ALTER condition SET DEFAULT 'new'")
    op.execute("DROP TYPE copy_condition_with_good")
