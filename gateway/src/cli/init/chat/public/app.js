// The page uses the unmodified supabase-js; supabase.js in this folder is a copy of it.
const { url, anonKey } = await (await fetch("/app-config.json")).json();
const client = supabase.createClient(url, anonKey);
const find = (id) => document.getElementById(id);
const shown = new Set();

/** Shows an error; returns the data of an answer without one. */
function checked({ data, error }) {
  find("message").textContent = error?.message ?? "";
  return error ? undefined : data;
}

function show(message) {
  // The list and the stream may both deliver it.
  if (shown.has(message.id)) return;
  shown.add(message.id);
  const item = document.createElement("li");
  const author = Object.assign(document.createElement("strong"), { textContent: message.author });
  const body = Object.assign(document.createElement("span"), { textContent: message.body });
  item.append(author, body);
  find("messages").append(item);
  item.scrollIntoView();
}

async function enter(session) {
  find("enter").hidden = true;
  find("write").hidden = false;
  const room = client.channel("room", { config: { private: true, presence: { key: session.user.id } } });
  room
    .on("postgres_changes", { event: "INSERT", schema: "public", table: "messages" }, ({ new: message }) => show(message))
    .on("presence", { event: "sync" }, () => {
      const names = Object.values(room.presenceState()).map(([first]) => first.name);
      find("present").textContent = names.join(", ");
    })
    .subscribe(async (status) => {
      if (status !== "SUBSCRIBED") return;
      await room.track({ name: session.user.user_metadata.name ?? "guest" });
      // After the subscription, so that no message is missed in between; also after a lost connection.
      const newest = checked(await client.from("messages").select().order("id", { ascending: false }).limit(100));
      for (const message of (newest ?? []).reverse()) show(message);
    });
}

find("enter").onsubmit = async (event) => {
  event.preventDefault();
  const { name } = Object.fromEntries(new FormData(event.target));
  const data = checked(await client.auth.signInAnonymously({ options: { data: { name } } }));
  if (data?.session) await enter(data.session);
};

find("write").onsubmit = async (event) => {
  event.preventDefault();
  const { body } = Object.fromEntries(new FormData(event.target));
  if (checked(await client.from("messages").insert({ body })) !== undefined) event.target.reset();
};

const { data } = await client.auth.getSession();
if (data.session) await enter(data.session);
else find("enter").hidden = false;
