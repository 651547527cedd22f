//! Agents that the client asks for numbers of keys: of whom it knows to serve them, and of anybody else if it knows nobody or that one fails.
//! With real agents it is tried in `tests/`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uniq_client::{Client, Error, MintCode, Settings, Slot};

const KEYS_PER_SECTION: u32 = 10;

/// All agents together: who serves which section, and the counters, which are everybody's here.
#[derive(Default)]
struct World {
    addresses: Vec<String>,
    /// By sections: which agent, and its `g`.
    owners: BTreeMap<u32, (usize, u64)>,
    counters: BTreeMap<u32, u64>,
    /// Slots that each agent was asked for.
    asked: Vec<Vec<u32>>,
    down: Option<usize>,
    ended: Option<u32>,
    tells_all: bool,
    /// The cluster of each agent, if it tells it.
    clusters: BTreeMap<usize, String>,
    /// The time that a call waits, as while a section moves.
    moving: Duration,
    /// A route that the first agent adds to its answers, instead of those that there are.
    invented: Option<Value>,
    /// The code with which an agent refuses every call.
    refuses: BTreeMap<usize, &'static str>,
}

#[derive(Clone)]
struct Agent(usize, Arc<Mutex<World>>);

impl World {
    fn route(&self, section: u32) -> Option<Value> {
        let (owner, g) = self.owners.get(&section)?;
        let at = &self.addresses[*owner];
        Some(json!({ "from": section, "to": section + 1, "g": g, "http": at, "rpc": at }))
    }
}

impl Agent {
    fn take(&self, keys: &[(u32, u32)], query: &BTreeMap<String, String>) -> Response {
        let mut world = self.1.lock().unwrap();
        world.asked[self.0].extend(keys.iter().map(|(slot, _)| *slot));
        let g = query["g"].parse().unwrap();
        if world.clusters.get(&self.0).is_some_and(|here| query.get("cluster").is_some_and(|there| there != here)) {
            let problem = json!({ "code": "wrong_cluster", "detail": "" });
            return (StatusCode::SERVICE_UNAVAILABLE, Json(problem)).into_response();
        }
        if let Some(code) = world.refuses.get(&self.0) {
            let problem = json!({ "code": code, "detail": "" });
            return (StatusCode::SERVICE_UNAVAILABLE, Json(problem)).into_response();
        }
        if world.down == Some(self.0) {
            return StatusCode::BAD_GATEWAY.into_response();
        }
        let (mut ids, mut errors, mut routes) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (slot, n)) in keys.iter().enumerate() {
            let section = slot / KEYS_PER_SECTION;
            let (owner, newest) = world.owners[&section];
            if owner != self.0 || newest > g {
                routes.extend(world.invented.clone().or_else(|| world.route(section)));
            }
            if world.ended == Some(*slot) {
                ids.push(Value::Null);
                errors.push(json!({ "at": at, "code": "serial_exhausted", "detail": "" }));
                continue;
            }
            let counter = world.counters.entry(*slot).or_default();
            let first = *counter + 1;
            *counter += u64::from(*n);
            if keys.len() == 1 {
                ids.extend((first..first + u64::from((*n).max(1))).map(|id| Value::from(id.to_string())));
            } else {
                ids.push(first.to_string().into());
            }
        }
        if errors.len() == keys.len() {
            let problem = json!({ "code": "serial_exhausted", "detail": "" });
            return (StatusCode::TOO_MANY_REQUESTS, Json(problem)).into_response();
        }
        Json(json!({ "ids": ids, "errors": errors, "routes": routes })).into_response()
    }
}

async fn one(
    State(agent): State<Agent>,
    Path((_, slot)): Path<(String, u32)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let moving = agent.1.lock().unwrap().moving;
    tokio::time::sleep(moving).await;
    agent.take(&[(slot, query["n"].parse().unwrap())], &query)
}

async fn many(State(agent): State<Agent>, Query(query): Query<BTreeMap<String, String>>, body: String) -> Response {
    let lines = body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let small = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    let keys: Vec<_> = lines.map(|line| (small(&line["key"]), small(&line["n"]))).collect();
    agent.take(&keys, &query)
}

async fn routes(State(agent): State<Agent>) -> Json<Value> {
    let world = agent.1.lock().unwrap();
    let all: Vec<Value> = world.owners.keys().filter_map(|section| world.route(*section)).collect();
    let told = if world.tells_all { all } else { Vec::new() };
    let cluster = world.clusters.get(&agent.0);
    Json(json!({ "cluster": cluster, "keys_per_section": KEYS_PER_SECTION, "routes": told, "next": null }))
}

/// Three agents, of which the client is told the first two.
async fn world() -> (Client, Arc<Mutex<World>>) {
    world_in(Duration::from_secs(5), Duration::from_secs(5)).await
}

async fn world_in(timeout: Duration, key_timeout: Duration) -> (Client, Arc<Mutex<World>>) {
    world_told_of(2, timeout, key_timeout).await
}

async fn world_of(told: usize) -> (Client, Arc<Mutex<World>>) {
    world_told_of(told, Duration::from_secs(5), Duration::from_secs(5)).await
}

async fn world_told_of(told: usize, timeout: Duration, key_timeout: Duration) -> (Client, Arc<Mutex<World>>) {
    let world = Arc::new(Mutex::new(World { asked: vec![Vec::new(); 3], ..World::default() }));
    for nth in 0..3 {
        let router = Router::new()
            .route("/sequence/{name}", post(many))
            .route("/sequence/{name}/{key}", post(one))
            .route("/sequences/{name}/routes", get(routes))
            .with_state(Agent(nth, Arc::clone(&world)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        world.lock().unwrap().addresses.push(listener.local_addr().unwrap().to_string());
        tokio::spawn(async move { axum::serve(listener, router).await });
    }
    let known: Vec<String> =
        world.lock().unwrap().addresses.iter().take(told).map(|address| format!("http://{address}")).collect();
    let mut settings = Settings::new(known.iter().map(String::as_str)).unwrap();
    (settings.timeout, settings.key_timeout) = (timeout, key_timeout);
    // The order in which agents are asked is by who answered.
    settings.rest = Duration::ZERO;
    (Client::new(settings).unwrap(), world)
}

fn asked(world: &Mutex<World>) -> Vec<Vec<u32>> {
    world.lock().unwrap().asked.iter_mut().map(std::mem::take).collect()
}

#[tokio::test]
async fn who_serves_a_key_is_learned_from_an_answer_and_asked_from_then_on() {
    let (client, world) = world().await;
    world.lock().unwrap().owners = BTreeMap::from([(0, (2, 5)), (1, (1, 1))]);
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 1);
    assert_eq!(asked(&world), [vec![7], vec![], vec![]], "nobody is known");
    assert_eq!(client.sequence_batch("orders", Slot(8), 3).await.unwrap(), 1);
    assert_eq!(client.sequence("orders", Slot(8)).await.unwrap(), 4);
    assert_eq!(asked(&world), [vec![], vec![], vec![8, 8]], "its section is known");
    // It moves: whoever had it passes the call on, and says so.
    world.lock().unwrap().owners.insert(0, (1, 6));
    for number in 5..8 {
        assert_eq!(client.sequence("orders", Slot(8)).await.unwrap(), number);
    }
    assert_eq!(asked(&world), [vec![], vec![8, 8], vec![8]]);
}

#[tokio::test]
async fn an_agent_that_fails_is_followed_by_another_one_once() {
    let (client, world) = world().await;
    {
        let mut world = world.lock().unwrap();
        (world.tells_all, world.owners) = (true, BTreeMap::from([(0, (2, 5))]));
        world.down = Some(2);
    }
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 1);
    assert_eq!(asked(&world), [vec![7], vec![], vec![7]]);
    world.lock().unwrap().owners.insert(0, (1, 6));
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 2);
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 3);
    // The first answer had the route to the one that is down; a newer one takes its place.
    let asked = asked(&world);
    assert_eq!(asked[1].last(), Some(&7), "{asked:?}");
}

/// Whoever says `segment_pending` has waited for as long as a section can be without service.
#[tokio::test]
async fn for_a_section_that_nobody_serves_two_agents_wait_and_no_further_one() {
    let (client, world) = world_of(3).await;
    {
        let mut world = world.lock().unwrap();
        (world.tells_all, world.owners) = (true, BTreeMap::from([(0, (0, 5))]));
        world.refuses = (0..3).map(|agent| (agent, "segment_pending")).collect();
    }
    let error = client.sequence("orders", Slot(7)).await.unwrap_err();
    let Error::Unavailable(attempts) = &error else { panic!("{error}") };
    assert_eq!(attempts.len(), 2, "{error}");
    assert_eq!(asked(&world), [vec![7], vec![7], vec![]], "who serves it is not asked again");
    // The third one can by now. Nobody is known any more, and the next call begins with whom this one did not ask.
    world.lock().unwrap().refuses.remove(&2);
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 1);
    assert_eq!(asked(&world), [vec![], vec![], vec![7]]);
}

#[tokio::test]
async fn who_has_too_much_to_do_is_still_the_one_that_serves_a_key() {
    let (client, world) = world().await;
    {
        let mut world = world.lock().unwrap();
        (world.tells_all, world.owners) = (true, BTreeMap::from([(0, (1, 5))]));
        world.refuses.insert(1, "overloaded");
    }
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 1);
    assert_eq!(asked(&world), [vec![7], vec![7], vec![]]);
    world.lock().unwrap().refuses.clear();
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 2);
    assert_eq!(asked(&world), [vec![], vec![7], vec![]]);
}

#[tokio::test]
async fn a_batch_is_split_by_agents_and_put_together_in_order() {
    let (client, world) = world().await;
    {
        let mut world = world.lock().unwrap();
        (world.tells_all, world.ended) = (true, Some(13));
        world.owners = (0..30).map(|section| (section, (section as usize % 3, 1))).collect();
        world.counters = (0..300).map(|slot| (slot, u64::from(slot) * 10)).collect();
    }
    let keys: Vec<Slot> = (0..300).map(|at| Slot(at * 7 % 300)).collect();
    let numbers = client.sequence_many("orders", &keys).await.unwrap();
    for (Slot(slot), number) in keys.iter().zip(&numbers) {
        let expected = if *slot == 13 { Err(MintCode::SerialExhausted) } else { Ok(u64::from(*slot) * 10 + 1) };
        assert_eq!(*number, expected, "{slot}");
    }
    for (nth, slots) in asked(&world).into_iter().enumerate() {
        assert!(slots.len() == 100 && slots.iter().all(|slot| slot / KEYS_PER_SECTION % 3 == nth as u32), "{nth}");
    }
}

/// The address of an agent that is gone may be another cluster's by now, in which the same keys have other numbers.
#[tokio::test]
async fn an_old_route_into_another_cluster_gives_no_number() {
    let (client, world) = world().await;
    let ours = "0123456789abcdef0123456789abcdef";
    {
        let mut world = world.lock().unwrap();
        (world.tells_all, world.owners) = (true, BTreeMap::from([(0, (2, 5))]));
        world.clusters = (0..3).map(|agent| (agent, ours.to_owned())).collect();
    }
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 1);
    assert_eq!(asked(&world), [vec![], vec![], vec![7]]);
    {
        let mut world = world.lock().unwrap();
        world.clusters.insert(2, "f".repeat(32));
        world.owners.insert(0, (1, 6));
    }
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 2);
    let asked_of = asked(&world);
    assert_eq!(
        (&asked_of[0], &asked_of[2]),
        (&vec![7], &vec![7]),
        "the other cluster's refuses, and another one of ours gives"
    );
    // The last ones of ours are gone, too: rather none than another cluster's.
    world.lock().unwrap().clusters = (0..3).map(|agent| (agent, "f".repeat(32))).collect();
    let error = client.sequence("orders", Slot(7)).await.unwrap_err();
    assert!(error.to_string().contains("wrong_cluster"), "{error}");
}

#[tokio::test]
async fn what_is_used_up_is_used_up_everywhere() {
    let (client, world) = world().await;
    {
        let mut world = world.lock().unwrap();
        (world.ended, world.owners) = (Some(7), BTreeMap::from([(0, (2, 5))]));
    }
    let error = client.sequence("orders", Slot(7)).await.unwrap_err();
    assert!(matches!(error, Error::Refused { code: MintCode::SerialExhausted, .. }), "{error}");
    assert_eq!(asked(&world).iter().map(Vec::len).sum::<usize>(), 1, "nobody else is asked");
    assert!(
        client.sequence_many("orders", &[]).await.is_err()
            && client.sequence_batch("orders", Slot(1), 0).await.is_err()
    );
}

#[tokio::test]
async fn a_call_waits_for_a_section_that_moves_longer_than_for_other_answers() {
    let (client, world) = world_in(Duration::from_millis(200), Duration::from_secs(60)).await;
    {
        let mut world = world.lock().unwrap();
        (world.owners, world.moving) = (BTreeMap::from([(0, (0, 1))]), Duration::from_millis(800));
    }
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 1);
    assert_eq!(asked(&world), [vec![7], vec![], vec![]], "once");
}

/// Whoever is asked by a route whose `g` never was says who serves the section: from then on that one is asked.
#[tokio::test]
async fn a_route_that_never_was_leads_astray_once() {
    let (client, world) = world().await;
    {
        let mut world = world.lock().unwrap();
        world.owners = (0..10).map(|section| (section, (1, 5))).collect();
        world.invented = Some(json!({ "from": 0, "to": 1_000, "g": u64::MAX, "http": world.addresses[2], "rpc": "" }));
    }
    assert_eq!(client.sequence("orders", Slot(7)).await.unwrap(), 1);
    world.lock().unwrap().invented = None;
    asked(&world);
    for (number, slot) in [(2, 7), (3, 7), (1, 17), (2, 17)] {
        assert_eq!(client.sequence("orders", Slot(slot)).await.unwrap(), number);
    }
    assert_eq!(asked(&world), [vec![17], vec![7, 17], vec![7]], "of other sections nothing was believed");
}
