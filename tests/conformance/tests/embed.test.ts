import { describe, expect, test } from "vitest";
import { visitor } from "../support/clients";
import { rest } from "../support/http";

const basalt = visitor();

describe("kinds of relationship", () => {
  test("many-to-one is an object or null", async () => {
    const { data, error } = await basalt.from("projects").select("id, clients(name)").order("id");
    expect(error).toBeNull();
    expect(data).toEqual([
      { id: 1, clients: { name: "Acme" } },
      { id: 2, clients: { name: "Acme" } },
      { id: 3, clients: { name: "Globex" } },
      { id: 4, clients: null },
    ]);
  });

  test("one-to-many is an array, possibly empty", async () => {
    const { data } = await basalt
      .from("clients")
      .select("name, projects(id)")
      .order("id")
      .order("id", { referencedTable: "projects" });
    expect(data).toEqual([
      { name: "Acme", projects: [{ id: 1 }, { id: 2 }] },
      { name: "Globex", projects: [{ id: 3 }] },
      { name: "Umbrella", projects: [] },
    ]);
  });

  test("one-to-one is an object or null in both directions", async () => {
    const people = await basalt.from("people").select("name, profiles(bio)").order("id").limit(3);
    expect(people.data).toEqual([
      { name: "Ada", profiles: { bio: "Founder" } },
      { name: "Bob", profiles: { bio: "Engineer" } },
      { name: "Cleo", profiles: null },
    ]);
    const profiles = await basalt.from("profiles").select("bio, people(name)").eq("person_id", 2).single();
    expect(profiles.data).toEqual({ bio: "Engineer", people: { name: "Bob" } });
  });

  test("many-to-many works from both sides", async () => {
    const tasks = await basalt
      .from("tasks")
      .select("title, tags(name)")
      .lte("id", 3)
      .order("id")
      .order("name", { referencedTable: "tags" });
    expect(tasks.data).toEqual([
      { title: "Design", tags: [{ name: "blue" }, { name: "urgent" }] },
      { title: "Build", tags: [{ name: "urgent" }] },
      { title: "Launch", tags: [] },
    ]);
    const tags = await basalt
      .from("tags")
      .select("name, tasks(id)")
      .order("id")
      .order("id", { referencedTable: "tasks" });
    expect(tags.data).toEqual([
      { name: "urgent", tasks: [{ id: 1 }, { id: 2 }] },
      { name: "blue", tasks: [{ id: 1 }, { id: 6 }] },
      { name: "unused", tasks: [] },
    ]);
  });

  test("self-reference embeds parent and children", async () => {
    const { data } = await basalt
      .from("people")
      .select("name, manager:manager_id(name), reports:people(name)")
      .order("id")
      .order("id", { referencedTable: "reports" });
    expect(data).toEqual([
      { name: "Ada", manager: null, reports: [{ name: "Bob" }, { name: "Cleo" }] },
      { name: "Bob", manager: { name: "Ada" }, reports: [{ name: "Dan" }] },
      { name: "Cleo", manager: { name: "Ada" }, reports: [] },
      { name: "Dan", manager: { name: "Bob" }, reports: [] },
    ]);
    const hinted = await basalt.from("people").select("name, people!manager_id(name)").eq("id", 2).single();
    expect(hinted.data).toEqual({ name: "Bob", people: [{ name: "Dan" }] });
  });

  test("view inherits its columns' relationships", async () => {
    const { data, error } = await basalt.from("open_tasks").select("title, projects(name)").eq("id", 6).single();
    expect(error).toBeNull();
    expect(data).toEqual({ title: "Review", projects: { name: "Audit" } });
  });

  test("junction can be embedded", async () => {
    const { data } = await basalt.from("task_tags").select("tasks(title), tags(name)").eq("task_id", 2);
    expect(data).toEqual([{ tasks: { title: "Build" }, tags: { name: "urgent" } }]);
  });
});

describe("disambiguation", () => {
  const ofProject = (select: string) => basalt.from("projects").select(select).eq("id", 1).single();

  test("by constraint, with aliases", async () => {
    const { data } = await ofProject(
      "owner:people!projects_owner_fk(name), reviewer:people!projects_reviewer_fk(name)",
    );
    expect(data).toEqual({ owner: { name: "Ada" }, reviewer: { name: "Bob" } });
  });

  test("by column as hint, and by column or constraint as target", async () => {
    expect((await ofProject("people!reviewer_id(name)")).data).toEqual({ people: { name: "Bob" } });
    expect((await ofProject("owner:owner_id(name)")).data).toEqual({ owner: { name: "Ada" } });
    expect((await ofProject("owner_id(name)")).data).toEqual({ owner_id: { name: "Ada" } });
    expect((await ofProject("projects_reviewer_fk(name)")).data).toEqual({ projects_reviewer_fk: { name: "Bob" } });
  });

  test("works in the other direction", async () => {
    const { data } = await basalt.from("people").select("owned:projects!projects_owner_fk(name)").eq("id", 2).single();
    expect(data).toEqual({ owned: [{ name: "App" }] });
  });

  test("by junction", async () => {
    const { data } = await basalt.from("tasks").select("tags!task_tags(name)").eq("id", 6).single();
    expect(data).toEqual({ tags: [{ name: "blue" }] });
  });

  test("hint and join type in either order", async () => {
    for (const select of ["people!projects_reviewer_fk!inner(name)", "people!inner!projects_reviewer_fk(name)"]) {
      const { data, error } = await basalt.from("projects").select(`id, ${select}`).order("id");
      expect(error).toBeNull();
      expect(data).toEqual([
        { id: 1, people: { name: "Bob" } },
        { id: 2, people: { name: "Ada" } },
      ]);
    }
  });

  test("two candidates without a hint return 300", async () => {
    const response = await rest("projects", { select: "name,people(name)" });
    expect(response.status).toBe(300);
    expect(response.headers.get("location")).toBeNull();
    expect(response.json).toEqual({
      code: "PGRST201",
      details: [
        {
          cardinality: "many-to-one",
          embedding: "projects with people",
          relationship: "projects_owner_fk using projects(owner_id) and people(id)",
        },
        {
          cardinality: "many-to-one",
          embedding: "projects with people",
          relationship: "projects_reviewer_fk using projects(reviewer_id) and people(id)",
        },
      ],
      hint: "Try changing 'people' to one of the following: 'people!projects_owner_fk', 'people!projects_reviewer_fk'. Find the desired relationship in the 'details' key.",
      message: "Could not embed because more than one relationship was found for 'projects' and 'people'",
    });
    const { error } = await basalt.from("projects").select("name, people(name)");
    expect(error?.code).toBe("PGRST201");
  });

  test("no candidate returns 400", async () => {
    const response = await rest("projects", { select: "name,tags(name)" });
    expect(response.status).toBe(400);
    expect(response.json).toMatchObject({
      code: "PGRST200",
      details:
        "Searched for a foreign key relationship between 'projects' and 'tags' in the schema 'public', but no matches were found.",
      message: "Could not find a relationship between 'projects' and 'tags' in the schema cache",
    });
  });
});

describe("within an embed", () => {
  test("filters keep parents without a match", async () => {
    const { data } = await basalt.from("projects").select("id, tasks(title)").eq("tasks.title", "Build").order("id");
    expect(data).toEqual([
      { id: 1, tasks: [{ title: "Build" }] },
      { id: 2, tasks: [] },
      { id: 3, tasks: [] },
      { id: 4, tasks: [] },
    ]);
  });

  test("!inner drops parents and changes the count", async () => {
    const { data, count } = await basalt
      .from("projects")
      .select("id, tasks!inner(title)", { count: "exact" })
      .eq("tasks.done", true)
      .order("id");
    expect(data).toEqual([
      { id: 1, tasks: [{ title: "Design" }] },
      { id: 2, tasks: [{ title: "Sketch" }] },
    ]);
    expect(count).toBe(2);
  });

  test("!inner on a to-one embed", async () => {
    const { data } = await basalt.from("projects").select("id, clients!inner(name)").eq("clients.name", "Globex");
    expect(data).toEqual([{ id: 3, clients: { name: "Globex" } }]);
  });

  test("order and limit are per parent", async () => {
    const { data } = await basalt
      .from("projects")
      .select("id, tasks(id)")
      .lte("id", 2)
      .order("id")
      .order("id", { referencedTable: "tasks", ascending: false })
      .limit(2, { referencedTable: "tasks" });
    expect(data).toEqual([
      { id: 1, tasks: [{ id: 3 }, { id: 2 }] },
      { id: 2, tasks: [{ id: 5 }, { id: 4 }] },
    ]);
  });

  test("range", async () => {
    const { data } = await basalt
      .from("projects")
      .select("tasks(id)")
      .eq("id", 1)
      .order("id", { referencedTable: "tasks" })
      .range(1, 1, { referencedTable: "tasks" })
      .single();
    expect(data).toEqual({ tasks: [{ id: 2 }] });
  });

  test("or filter", async () => {
    const { data } = await basalt
      .from("projects")
      .select("tasks(id)")
      .eq("id", 1)
      .or("done.is.true,priority.eq.3", { referencedTable: "tasks" })
      .order("id", { referencedTable: "tasks" })
      .single();
    expect(data).toEqual({ tasks: [{ id: 1 }, { id: 3 }] });
  });

  test("alias is used in filters and orders", async () => {
    const { data } = await basalt
      .from("projects")
      .select("work:tasks(title)")
      .eq("id", 1)
      .eq("work.done", false)
      .order("id", { referencedTable: "work" })
      .single();
    expect(data).toEqual({ work: [{ title: "Build" }, { title: "Launch" }] });
  });

  test("count", async () => {
    const { data } = await basalt.from("projects").select("name, tasks(count)").order("id");
    expect(data).toEqual([
      { name: "Website", tasks: [{ count: 3 }] },
      { name: "App", tasks: [{ count: 2 }] },
      { name: "Audit", tasks: [{ count: 1 }] },
      { name: "Internal", tasks: [{ count: 0 }] },
    ]);
  });

  test("filters at several levels", async () => {
    const { data, error } = await basalt
      .from("clients")
      .select("name, projects(name, tasks(title, tags(name)))")
      .eq("id", 1)
      .eq("projects.name", "Website")
      .lte("projects.tasks.priority", 2)
      .order("id", { referencedTable: "projects.tasks" })
      .order("name", { referencedTable: "projects.tasks.tags" })
      .single();
    expect(error).toBeNull();
    expect(data).toEqual({
      name: "Acme",
      projects: [
        {
          name: "Website",
          tasks: [
            { title: "Design", tags: [{ name: "blue" }, { name: "urgent" }] },
            { title: "Build", tags: [{ name: "urgent" }] },
          ],
        },
      ],
    });
  });

  test("nested !inner needs !inner on every level", async () => {
    const through = await basalt
      .from("clients")
      .select("id, projects!inner(id, tasks!inner(id))")
      .eq("projects.tasks.title", "Review");
    expect(through.data).toEqual([{ id: 2, projects: [{ id: 3, tasks: [{ id: 6 }] }] }]);
    const notThrough = await basalt
      .from("clients")
      .select("id, projects(id, tasks!inner(id))")
      .eq("projects.tasks.title", "Review")
      .order("id");
    expect(notThrough.data).toEqual([
      { id: 1, projects: [] },
      { id: 2, projects: [{ id: 3, tasks: [{ id: 6 }] }] },
      { id: 3, projects: [] },
    ]);
  });

  test("same target twice", async () => {
    const { data } = await basalt
      .from("projects")
      .select("done:tasks(id), open:tasks(id)")
      .eq("id", 1)
      .eq("done.done", true)
      .eq("open.done", false)
      .order("id", { referencedTable: "open" })
      .single();
    expect(data).toEqual({ done: [{ id: 1 }], open: [{ id: 2 }, { id: 3 }] });
  });

  test("empty embed joins without output", async () => {
    const { data } = await basalt.from("projects").select("id, tasks!inner()").eq("tasks.title", "Review");
    expect(data).toEqual([{ id: 3 }]);
  });

  test("rejects a filter on a missing embed", async () => {
    const response = await rest("projects", { select: "id", "tasks.id": "eq.1" });
    expect([response.status, response.json]).toEqual([
      400,
      {
        code: "PGRST108",
        details: null,
        hint: "Verify that 'tasks' is included in the 'select' query parameter.",
        message: "'tasks' is not an embedded resource in this request",
      },
    ]);
  });
});
