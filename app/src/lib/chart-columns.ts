interface Column {
  key: string;
  title: string;
  percent: number;
}

/** More than this are lines, not columns. */
const mostColumns = 40;

/** The columns themselves, or as many as can be seen, each the average of some neighbours. */
export function chartColumns(columns: Column[]): Column[] {
  if (columns.length <= mostColumns) return columns;
  const size = Math.ceil(columns.length / mostColumns);
  return Array.from({ length: Math.ceil(columns.length / size) }, (_, index) => {
    const part = columns.slice(index * size, (index + 1) * size);
    const [from, to] = [index * size + 1, index * size + part.length];
    return {
      key: part[0]?.key ?? "",
      title: from === to ? `Priority ${from}` : `Priorities ${from} to ${to}`,
      percent: Math.round(part.reduce((sum, { percent }) => sum + percent, 0) / part.length),
    };
  });
}
