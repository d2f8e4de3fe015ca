"""The work of the library's desk."""

from datetime import date, timedelta
from decimal import Decimal

from sqlalchemy import exists, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, joinedload

from .models import Author, Book, Condition, Copy, Loan, Member

LOAN_DAYS = 28
FINE_A_DAY = Decimal("0.25")


class NoCopyLeft(Exception):
    pass


def lend(session: Session, isbn: str, member: Member, today: date) -> Loan:
    """Lends any copy that is on its shelf and that nobody else is just being lent."""
    lent = exists().where(Loan.copy_id == Copy.id, Loan.returned.is_(None))
    free = (
        select(Copy)
        .join(Copy.book)
        .where(Book.isbn == isbn, Copy.condition != Condition.lost, ~lent)
        .order_by(Copy.id)
        .limit(1)
        .with_for_update(of=Copy, skip_locked=True)
    )
    copy = session.scalars(free).first()
    if copy is None:
        raise NoCopyLeft(isbn)
    loan = Loan(copy=copy, member=member, lent=today, due=today + timedelta(days=LOAN_DAYS))
    session.add(loan)
    session.flush()
    return loan


def take_back(session: Session, loan: Loan, today: date) -> Decimal:
    loan.returned = today
    fine = max((today - loan.due).days, 0) * FINE_A_DAY
    if fine:
        loan.member.balance -= fine
    session.flush()
    return fine


def stock(session: Session, rows: list[dict]) -> int:
    """Adds books, or renews the titles and details of those that are known."""
    put = insert(Book).values(rows)
    put = put.on_conflict_do_update(
        index_elements=[Book.isbn],
        set_={"title": put.excluded.title, "details": Book.details + put.excluded.details},
    )
    return len(session.scalars(put.returning(Book.id)).all())


def overdue(session: Session, today: date) -> list[tuple[str, str, int]]:
    late = (
        select(Loan)
        .options(joinedload(Loan.member), joinedload(Loan.copy).joinedload(Copy.book))
        .where(Loan.returned.is_(None), Loan.due < today)
        .order_by(Loan.due, Loan.id)
    )
    return [
        (loan.member.name, loan.copy.book.title, (today - loan.due).days)
        for loan in session.scalars(late)
    ]


def most_lent(session: Session, first: int):
    """Books by how often they were lent, with their share and their place; ties share one."""
    count = func.count(Loan.id)
    ranked = (
        select(
            Book.title,
            count.label("lent"),
            func.rank().over(order_by=count.desc()).label("place"),
            func.round(100 * count / func.sum(count).over(), 1).label("share"),
        )
        .join(Book.copies)
        .join(Copy.loans)
        .group_by(Book.id)
        .subquery()
    )
    return session.execute(
        select(ranked).where(ranked.c.place <= first).order_by(ranked.c.place, ranked.c.title)
    ).all()


def search(session: Session, words: str, tag: str | None = None):
    found = select(Book).where(func.lower(Book.title).contains(words.lower()))
    if tag:
        found = found.where(Book.tags.contains([tag]))
    return session.scalars(found.order_by(Book.title)).all()


def authors_with_counts(session: Session):
    return session.execute(
        select(Author.name, func.count(Book.id))
        .outerjoin(Author.books)
        .group_by(Author.id)
        .order_by(func.count(Book.id).desc(), Author.name)
    ).all()
