//! What happens to requests, and to what they wrote, when a part goes away: PostgreSQL, the server, the link between.

mod killed;
mod link;
mod load;
