import os

from sqlalchemy import URL, create_engine
from sqlalchemy.orm import sessionmaker

engine = create_engine(
    URL.create(
        "postgresql+psycopg",
        username=os.environ.get("PGUSER", "postgres"),
        host=os.environ.get("PGHOST", "127.0.0.1"),
        port=int(os.environ.get("PGPORT", "5432")),
        database=os.environ.get("PGDATABASE", "postgres"),
    )
)
Session = sessionmaker(engine)
