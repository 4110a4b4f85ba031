/** Every write gives a row a new `updated_at`, or a new place where it only moves it. */
interface Version {
  id: string;
  updated_at: string;
  position?: number | null | undefined;
}

const maxRemembered = 100;

const pending = new Map<string, number>();
const written = new Set<string>();

const nameOf = ({ id, updated_at, position }: Version) => `${id} ${updated_at} ${position ?? ""}`;

/** Runs a write of a row whose mutation refetches what it changed; its realtime event then needs no second fetch. */
export async function ownWrite<Written extends Version>(id: string, write: PromiseLike<{ data: Written | null }>) {
  pending.set(id, (pending.get(id) ?? 0) + 1);
  try {
    const { data } = await write;
    if (data) remember(nameOf(data));
    return data;
  } finally {
    const others = (pending.get(id) ?? 1) - 1;
    if (others > 0) pending.set(id, others);
    else pending.delete(id);
  }
}

function remember(name: string) {
  written.add(name);
  const [oldest] = written;
  if (written.size > maxRemembered && oldest) written.delete(oldest);
}

/** Whether a mutation of this page refetches this version of a row, or is about to. */
export function isOwnWrite({ id, updated_at, position }: Partial<Version>) {
  if (id === undefined) return false;
  return pending.has(id) || (updated_at !== undefined && written.has(nameOf({ id, updated_at, position })));
}
