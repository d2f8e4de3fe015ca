import pytest

from library.database import Session, engine
from library.models import Base


@pytest.fixture
def session():
    """A session over empty tables."""
    with engine.begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())
    with Session() as session:
        yield session


@pytest.fixture
def other():
    """The session of another desk."""
    with Session() as session:
        yield session
