"""members and loans"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.create_table(
        "members",
        sa.Column("id", sa.Integer, sa.Identity(start=1000), primary_key=True),
        sa.Column("email", sa.Text, nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("joined", sa.DateTime, server_default=sa.func.now(), nullable=False),
        sa.Column("balance", sa.Integer, server_default=sa.text("0"), nullable=False),
    )
    op.create_table(
        "loans",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("copy_id", sa.Integer, sa.ForeignKey("copies.id"), nullable=False),
        sa.Column("member_id", sa.Integer, sa.ForeignKey("members.id"), nullable=False),
        sa.Column("lent", sa.Date, nullable=False),
        sa.Column("due", sa.Date, nullable=False),
        sa.Column("returned", sa.Date),
        sa.CheckConstraint("due > lent", name="due_after_lent"),
        sa.UniqueConstraint("copy_id", "member_id", "lent"),
    )
    op.create_index("ix_loans_member_id", "loans", ["member_id"])


def downgrade():
    op.drop_table("loans")
    op.drop_table("members")
