"""Data that users bring: arrays, folders of images, tables, and datamodules of their own."""
