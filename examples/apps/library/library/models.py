import enum
from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import (
    CheckConstraint,
    Column,
    Enum,
    FetchedValue,
    ForeignKey,
    Identity,
    Index,
    Numeric,
    String,
    Table,
    Text,
    UniqueConstraint,
    cast,
    func,
    text,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import UserDefinedType


class Base(DeclarativeBase):
    pass


class TransactionId(UserDefinedType):
    """The type of the system column xmin."""

    cache_ok = True

    def get_col_spec(self, **kw):
        return "xid"

    def bind_expression(self, bindvalue):
        return cast(type_coerce(bindvalue, Text), self)


class Condition(enum.Enum):
    new = "new"
    good = "good"
    worn = "worn"
    lost = "lost"


book_authors = Table(
    "book_authors",
    Base.metadata,
    Column("book_id", ForeignKey("books.id", ondelete="CASCADE"), primary_key=True),
    Column("author_id", ForeignKey("authors.id"), primary_key=True, index=True),
)


class Author(Base):
    __tablename__ = "authors"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(String(120), unique=True)
    books: Mapped[list["Book"]] = relationship(secondary=book_authors, back_populates="authors")


class Book(Base):
    __tablename__ = "books"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    isbn: Mapped[str] = mapped_column(String(13), unique=True)
    title: Mapped[str] = mapped_column(Text)
    published: Mapped[date | None]
    tags: Mapped[list[str]] = mapped_column(ARRAY(String(20)), server_default=text("'{}'"))
    details: Mapped[dict] = mapped_column(JSONB, server_default=text("'{}'"))
    authors: Mapped[list[Author]] = relationship(secondary=book_authors, back_populates="books")
    copies: Mapped[list["Copy"]] = relationship(
        back_populates="book", cascade="all, delete-orphan", passive_deletes=True
    )

    __table_args__ = (
        CheckConstraint("length(isbn) IN (10, 13)", name="isbn_length"),
        Index("books_lower_title", func.lower(title)),
    )


class Copy(Base):
    __tablename__ = "copies"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    book_id: Mapped[int] = mapped_column(ForeignKey("books.id", ondelete="CASCADE"), index=True)
    shelf: Mapped[str] = mapped_column(String(10))
    condition: Mapped[Condition] = mapped_column(
        Enum(Condition, name="copy_condition"), server_default="new"
    )
    book: Mapped[Book] = relationship(back_populates="copies")
    loans: Mapped[list["Loan"]] = relationship(back_populates="copy")


class Member(Base):
    __tablename__ = "members"

    id: Mapped[int] = mapped_column(Identity(start=1000), primary_key=True)
    email: Mapped[str] = mapped_column(Text, unique=True)
    name: Mapped[str] = mapped_column(Text)
    joined: Mapped[datetime] = mapped_column(server_default=func.now())
    balance: Mapped[Decimal] = mapped_column(Numeric(8, 2), server_default=text("0"))
    loans: Mapped[list["Loan"]] = relationship(back_populates="member")

    # A lost update is noticed by the transaction that made the row's version.
    xmin = mapped_column("xmin", TransactionId, system=True, server_default=FetchedValue())
    __mapper_args__ = {"version_id_col": xmin, "version_id_generator": False}


class Loan(Base):
    __tablename__ = "loans"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    copy_id: Mapped[int] = mapped_column(ForeignKey("copies.id"))
    member_id: Mapped[int] = mapped_column(ForeignKey("members.id"), index=True)
    lent: Mapped[date]
    due: Mapped[date]
    returned: Mapped[date | None]
    copy: Mapped[Copy] = relationship(back_populates="loans")
    member: Mapped[Member] = relationship(back_populates="loans")

    __table_args__ = (
        CheckConstraint("due > lent", name="due_after_lent"),
        UniqueConstraint("copy_id", "member_id", "lent"),
        # A copy is lent to one member at a time.
        Index(
            "loans_open",
            "copy_id",
            unique=True,
            postgresql_where=text("returned IS NULL"),
        ),
    )
