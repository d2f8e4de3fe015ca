from datetime import date, timedelta
from decimal import Decimal
from threading import Thread

import pytest
from sqlalchemy import delete, func, inspect, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import selectinload
from sqlalchemy.orm.exc import StaleDataError

from library import desk
from library.database import Session, engine
from library.models import Author, Book, Condition, Copy, Loan, Member

TODAY = date(2024, 2, 29)


def a_book(session, isbn="9780262033848", title="Introduction to Algorithms", copies=1, **given):
    book = Book(isbn=isbn, title=title, **given)
    book.copies = [Copy(shelf=f"A{n}") for n in range(copies)]
    session.add(book)
    session.flush()
    return book


def a_member(session, name="Ada"):
    member = Member(name=name, email=f"{name.lower()}@example.org")
    session.add(member)
    session.flush()
    return member


def test_a_book_has_its_authors_and_copies(session):
    book = a_book(session, copies=3, published=date(2009, 7, 31), tags=["algorithms", "mit"])
    book.authors = [Author(name="Cormen"), Author(name="Leiserson")]
    session.commit()
    found = session.scalars(
        select(Book).options(selectinload(Book.authors), selectinload(Book.copies))
    ).one()
    assert [author.name for author in found.authors] == ["Cormen", "Leiserson"]
    assert [copy.condition for copy in found.copies] == [Condition.new] * 3
    assert (found.tags, found.details) == (["algorithms", "mit"], {})
    session.delete(found)
    session.commit()
    assert session.scalar(select(func.count()).select_from(Copy)) == 0
    assert desk.authors_with_counts(session) == [("Cormen", 0), ("Leiserson", 0)]


def test_constraints_name_themselves(session):
    a_book(session)
    session.commit()
    for broken, constraint in [
        (Book(isbn="9780262033848", title="Again"), "books_isbn_key"),
        (Book(isbn="12345", title="Short"), "isbn_length"),
        (Copy(book_id=-1, shelf="Z"), "copies_book_id_fkey"),
    ]:
        with pytest.raises(IntegrityError) as refused:
            with session.begin_nested():
                session.add(broken)
        assert refused.value.orig.diag.constraint_name == constraint
    with pytest.raises(IntegrityError) as refused:
        session.execute(update(Book).values(title=None))
    assert refused.value.orig.diag.column_name == "title"


def test_a_copy_is_lent_to_one_member_at_a_time(session, other):
    book = a_book(session, copies=2)
    ada, grace = a_member(session, "Ada"), a_member(session, "Grace")
    session.commit()
    first = desk.lend(session, book.isbn, ada, TODAY)
    # The other desk passes over the copy that this one is lending.
    second = desk.lend(other, book.isbn, other.get(Member, grace.id), TODAY)
    assert first.copy_id != second.copy_id
    other.commit()
    session.commit()
    with pytest.raises(desk.NoCopyLeft):
        desk.lend(session, book.isbn, ada, TODAY)
    with pytest.raises(IntegrityError) as refused:
        with session.begin_nested():
            session.add(
                Loan(copy_id=first.copy_id, member=grace, lent=TODAY, due=TODAY + timedelta(1))
            )
    assert refused.value.orig.diag.constraint_name == "loans_open"
    assert desk.take_back(session, first, TODAY + timedelta(days=30)) == Decimal("0.50")
    session.commit()
    assert session.get(Member, ada.id).balance == Decimal("-0.50")
    assert desk.lend(session, book.isbn, grace, TODAY + timedelta(days=31)).copy_id == first.copy_id


def test_a_lost_update_is_noticed(session, other):
    member = a_member(session)
    session.commit()
    here, there = session.get(Member, member.id), other.get(Member, member.id)
    assert here.xmin == there.xmin
    here.balance += 5
    session.commit()
    there.balance += 7
    with pytest.raises(StaleDataError):
        other.commit()
    other.rollback()
    there.balance += 7
    other.commit()
    session.refresh(here)
    assert here.balance == 12


def test_many_desks_lend_each_copy_once(session):
    book = a_book(session, copies=20)
    members = [a_member(session, f"Member{n}").id for n in range(4)]
    session.commit()
    isbn = book.isbn

    def lend(member_id):
        with Session() as mine:
            member = mine.get(Member, member_id)
            while True:
                try:
                    desk.lend(mine, isbn, member, TODAY + timedelta(days=len(member.loans)))
                    mine.commit()
                except desk.NoCopyLeft:
                    # Copies that others were lending when this one looked may be all there were.
                    break
                except IntegrityError:
                    # Another desk has lent the copy between the look at it and its lock.
                    mine.rollback()

    threads = [Thread(target=lend, args=[member]) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lent = session.execute(select(func.count(), func.count(Loan.copy_id.distinct()))).one()
    assert lent == (20, 20)


def test_stock_renews_what_is_known(session):
    a_book(session, isbn="9780131103627", title="The C Programing Language", details={"pages": 1})
    rows = [
        {"isbn": "9780131103627", "title": "The C Programming Language", "details": {"ed": 2}},
        {"isbn": "9780201633610", "title": "Design Patterns", "details": {}},
    ]
    assert desk.stock(session, rows) == 2
    session.expire_all()
    book = session.scalars(select(Book).where(Book.isbn == "9780131103627")).one()
    assert (book.title, book.details) == ("The C Programming Language", {"pages": 1, "ed": 2})
    pages = select(Book.title).where(Book.details["pages"].as_integer() == 1)
    assert session.scalars(pages).all() == ["The C Programming Language"]
    has_edition = select(Book.title).where(Book.details.has_key("ed"))
    assert session.scalars(has_edition).all() == ["The C Programming Language"]


def test_reports(session):
    books = [
        a_book(session, isbn=f"978000000000{n}", title=f"Book {n}", copies=2, tags=tags)
        for n, tags in enumerate([["x"], ["x", "y"], [], ["y"]])
    ]
    ada, grace = a_member(session, "Ada"), a_member(session, "Grace")
    for book, times in zip(books, [3, 1, 3, 0]):
        for n in range(times):
            day = TODAY + timedelta(days=n)
            loan = desk.lend(session, book.isbn, [ada, grace][n % 2], day)
            if n:
                desk.take_back(session, loan, day + timedelta(days=1))
    session.commit()
    assert desk.most_lent(session, 2) == [
        ("Book 0", 3, 1, Decimal("42.9")),
        ("Book 2", 3, 1, Decimal("42.9")),
    ]
    late = desk.overdue(session, TODAY + timedelta(days=desk.LOAN_DAYS + 3))
    assert late == [("Ada", f"Book {n}", 3) for n in (0, 1, 2)]
    assert [book.title for book in desk.search(session, "BOOK", tag="y")] == ["Book 1", "Book 3"]
    tags = select(func.unnest(Book.tags).label("tag"), func.count()).group_by("tag").order_by("tag")
    assert session.execute(tags).all() == [("x", 2), ("y", 2)]
    months = (
        select(func.date_trunc("month", Loan.lent).label("month"), func.count())
        .group_by("month")
        .order_by("month")
    )
    counts = [(month.date(), count) for month, count in session.execute(months)]
    assert counts == [(date(2024, 2, 1), 3), (date(2024, 3, 1), 4)]


def test_a_savepoint_keeps_what_was_before_it(session):
    a_book(session)
    with pytest.raises(ZeroDivisionError):
        with session.begin_nested():
            a_book(session, isbn="9780201633610", title="Design Patterns")
            raise ZeroDivisionError
    session.commit()
    assert session.scalars(select(Book.title)).all() == ["Introduction to Algorithms"]


def test_many_rows_go_in_and_come_out_in_parts(session):
    session.add_all(
        Book(isbn=f"{n:013}", title=f"Book {n}", tags=[f"t{n % 7}"]) for n in range(2500)
    )
    session.commit()
    stream = session.scalars(
        select(Book.id).order_by(Book.id).execution_options(yield_per=300, stream_results=True)
    )
    parts = [len(part) for part in stream.partitions()]
    assert parts == [300] * 8 + [100]
    page = select(Book.isbn).order_by(Book.isbn.desc()).offset(10).limit(3)
    assert session.scalars(page).all() == [f"{n:013}" for n in (2489, 2488, 2487)]
    gone = session.execute(delete(Book).where(Book.tags.overlap(["t1", "t2"])))
    assert gone.rowcount == 714


def test_the_schema_is_what_the_framework_sees(session):
    seen = inspect(engine)
    assert {index["name"] for index in seen.get_indexes("loans")} >= {
        "loans_open",
        "ix_loans_member_id",
    }
    keys = {key["constrained_columns"][0]: key for key in seen.get_foreign_keys("copies")}
    assert keys["book_id"]["options"] == {"ondelete": "CASCADE"}
    columns = {column["name"]: column for column in seen.get_columns("books")}
    assert columns["tags"]["type"].item_type.length == 20
    assert columns["id"]["identity"]["always"] is False
    (enum,) = [enum for enum in seen.get_enums() if enum["name"] == "copy_condition"]
    assert enum["labels"] == ["new", "good", "worn", "lost"]
    version = session.scalar(text("SHOW server_version_num"))
    assert int(version) >= 150000
