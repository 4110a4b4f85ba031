// The page uses the unmodified supabase-js; supabase.js in this folder is a copy of it.
const { url, anonKey } = await (await fetch("/app-config.json")).json();
const client = supabase.createClient(url, anonKey);
const find = (id) => document.getElementById(id);

/** Shows an error; returns the data of an answer without one. */
function checked({ data, error }) {
  find("message").textContent = error?.message ?? "";
  return error ? undefined : data;
}

function row(todo) {
  const item = document.createElement("li");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: todo.is_done });
  box.ariaLabel = `Done: ${todo.title}`;
  box.onchange = async () => checked(await client.from("todos").update({ is_done: box.checked }).eq("id", todo.id));
  const title = Object.assign(document.createElement("span"), { textContent: todo.title, className: todo.is_done ? "done" : "" });
  const remove = Object.assign(document.createElement("button"), { textContent: "Delete", className: "plain" });
  remove.onclick = async () => {
    if (todo.attachment) checked(await client.storage.from("attachments").remove([todo.attachment]));
    checked(await client.from("todos").delete().eq("id", todo.id));
    await show();
  };
  item.append(box, title);
  if (todo.attachment) {
    const open = Object.assign(document.createElement("button"), { textContent: "File", className: "plain" });
    open.onclick = async () => {
      const signed = checked(await client.storage.from("attachments").createSignedUrl(todo.attachment, 60));
      if (signed) window.open(signed.signedUrl);
    };
    item.append(open);
  }
  item.append(remove);
  return item;
}

async function show() {
  const { data } = await client.auth.getSession();
  const isSignedIn = data.session !== null;
  find("account").hidden = isSignedIn;
  find("new").hidden = find("sign-out").hidden = !isSignedIn;
  const todos = isSignedIn ? checked(await client.from("todos").select().order("created_at")) : [];
  find("todos").replaceChildren(...(todos ?? []).map(row));
}

find("account").onsubmit = async (event) => {
  event.preventDefault();
  const { email, password } = Object.fromEntries(new FormData(event.target));
  const credentials = { email, password };
  checked(event.submitter.value === "up" ? await client.auth.signUp(credentials) : await client.auth.signInWithPassword(credentials));
};

find("new").onsubmit = async (event) => {
  event.preventDefault();
  const form = event.target;
  const { title, file } = Object.fromEntries(new FormData(form));
  let attachment = null;
  if (file.size > 0) {
    const { data } = await client.auth.getUser();
    const path = `${data.user.id}/${crypto.randomUUID()}-${file.name.replace(/[^\w.-]/g, "_")}`;
    const uploaded = checked(await client.storage.from("attachments").upload(path, file));
    if (!uploaded) return;
    attachment = uploaded.path;
  }
  if (checked(await client.from("todos").insert({ title, attachment }).select())) form.reset();
  await show();
};

find("sign-out").onclick = () => client.auth.signOut();

// Outside of the callback, because the client holds a lock while it calls it.
client.auth.onAuthStateChange(() => setTimeout(show));
client
  .channel("todos")
  .on("postgres_changes", { event: "*", schema: "public", table: "todos" }, show)
  .subscribe();
await show();
