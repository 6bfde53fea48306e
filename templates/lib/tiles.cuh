// Operands of a product on tensor cores, as they lie in the workspace: tiles of 128 rows by 64 of K, hi then lo, one tile
// after another along K, then the next 128 rows. A tile is the exact image of what wgmma reads from shared memory: rows of
// 128 bytes, whose 16-byte pieces change places within groups of 8 rows so that no bank is met twice.
enum { GNF_TILE_ROWS = 128, GNF_TILE_DEPTH = 64, GNF_TILE_PITCH = GNF_TILE_DEPTH * 2 };
enum { GNF_TILE_PART = GNF_TILE_ROWS * GNF_TILE_PITCH, GNF_TILE_BYTES = 2 * GNF_TILE_PART }; // of hi or lo alone; of both
// Where the piece of a row is that begins at element 8 * piece of the tile, in bytes.
GNF_DEV int gnf_tile_place(int row, int piece)
{
    return row * GNF_TILE_PITCH + ((piece ^ (row & 7)) << 4);
}
