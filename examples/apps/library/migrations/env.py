from logging.config import fileConfig

from alembic import context

from library.database import engine
from library.models import Base

if context.config.config_file_name:
    fileConfig(context.config.config_file_name)

with engine.connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        compare_type=True,
        compare_server_default=True,
        include_name=lambda name, kind, parents: kind != "table" or name in Base.metadata.tables,
        transaction_per_migration=True,
        version_table="library_version",
    )
    with context.begin_transaction():
        context.run_migrations()
