/** The server's `max_rows`: a list that may be longer is read in pages of this size. */
export const pageSize = 1000;

interface Page<Item> {
  data: Item[];
  /** Rows in all pages. */
  count: number | null;
}

/**
 * Reads a list to its end, all pages but the first at once. The order of `fetchPage` must be total, or pages overlap; the
 * first page must count the rows (`countOf`).
 */
export async function fetchAllRows<Item>(fetchPage: (from: number, to: number) => PromiseLike<Page<Item>>) {
  const first = await fetchPage(0, pageSize - 1);
  const pages = Math.ceil((first.count ?? first.data.length) / pageSize);
  const others = Array.from({ length: Math.max(0, pages - 1) }, (_, index) => {
    const from = (index + 1) * pageSize;
    return fetchPage(from, from + pageSize - 1);
  });
  return [first, ...(await Promise.all(others))].flatMap(({ data }) => data);
}

/** What `select` is to count for the page that begins here. */
export const countOf = (from: number) => (from === 0 ? ({ count: "exact" } as const) : {});
