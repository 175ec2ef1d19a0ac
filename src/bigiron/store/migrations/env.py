"""Alembic runs this: the steps go over the connection that the ledger has already opened."""

from alembic import context

from bigiron.store.schema import tables

context.configure(connection=context.config.attributes["connection"], target_metadata=tables)
context.run_migrations()
