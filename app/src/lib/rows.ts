/** The server's `max_rows`: a list that may be longer is read in pages of this size. */
export const pageSize = 1000;

/** Reads a list to its end. The order of `fetchPage` must be total, or pages overlap. */
export async function fetchAllRows<Item>(fetchPage: (from: number, to: number) => PromiseLike<{ data: Item[] }>) {
  const rows: Item[] = [];
  for (;;) {
    const { data } = await fetchPage(rows.length, rows.length + pageSize - 1);
    rows.push(...data);
    if (data.length < pageSize) return rows;
  }
}
