"""``flcluster convert``: manifests of traces."""

from flcluster.cli.arguments import parser_of


def convert(argv: list[str]) -> int:
    """Make a manifest from a dataset's published files."""
    parser = parser_of("convert")
    parser.add_argument("kind", type=str, help="fmow, cityscapes, cityscapes_frames, waymo or open_images.")
    parser.add_argument("source", type=str, help="Folder of the dataset.")
    parser.add_argument("output", type=str, help="Manifest to write.")
    given = parser.parse_args(argv)

    from flcluster.datamodules.traces.convert import convert as manifest_of

    print(f"wrote {manifest_of(given.kind, given.source, given.output)}")
    return 0
