//! Bodies that are sent and read while the exchange goes on.

use std::io;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{Body, LIMIT, Request, Response, client};
use crate::runtime::on_runtime;

/// An answer whose body is still on its way. Dropping it closes the connection.
#[derive(Debug)]
pub struct StreamedResponse {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    body: Incoming,
}

impl Request {
    /// Sends it and returns when the head of the answer is there.
    ///
    /// # Errors
    /// The connection failed or broke.
    pub async fn open(self) -> Result<StreamedResponse, String> {
        let (head, body) = self.split();
        exchange(head, body).await
    }

    /// Sends it with `body` in place of its own, chunk by chunk and without a content length unless a header names one;
    /// returns when the head of the answer is there. There is no time limit: a test may send slowly.
    ///
    /// # Errors
    /// The connection failed or broke, or `body` ended with an error, which breaks the request off.
    pub async fn stream(
        self,
        body: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<StreamedResponse, String> {
        let (head, _empty) = self.split();
        exchange(head, StreamBody::new(body.map_ok(Frame::data)).boxed_unsync()).await
    }
}

async fn exchange(head: http::request::Builder, body: Body) -> Result<StreamedResponse, String> {
    on_runtime(async move {
        let request = head.body(body).map_err(|error| error.to_string())?;
        let response = client().request(request).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        Ok(StreamedResponse { status: head.status, headers: head.headers, body })
    })
    .await
}

impl StreamedResponse {
    /// The next bytes, as they arrive; `None` at the end.
    ///
    /// # Errors
    /// The answer broke off, or nothing came for a minute.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let frame = timeout(LIMIT, self.body.frame()).await.map_err(|_| "no chunk within a minute")?;
            let Some(frame) = frame else { return Ok(None) };
            // A frame that is not data is a trailer.
            if let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The rest of the body, as a whole answer.
    ///
    /// # Errors
    /// The answer broke off.
    pub async fn whole(self) -> Result<Response, String> {
        let body = self.body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(Response { status: self.status, headers: self.headers, body })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::Router;
    use axum::routing::post;
    use futures_util::stream;
    use http::Method;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// Answers each request with its own body.
    async fn echo_url() -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let echo = Router::new().route("/", post(async |body: axum::body::Body| body));
        tokio::spawn(async { axum::serve(listener, echo).await });
        url
    }

    #[tokio::test]
    async fn chunks_go_out_and_come_back_one_by_one() {
        let (send, receive) = mpsc::channel::<Bytes>(1);
        let body = stream::unfold(receive, async |mut receive| {
            receive.recv().await.map(|chunk| (Ok(chunk), receive))
        });
        send.send("first".into()).await.unwrap();
        let mut answer = Request::new(Method::POST, echo_url().await).stream(body).await.unwrap();
        // The second chunk is not sent before the first has come back: no side waits for the whole.
        assert_eq!(answer.chunk().await.unwrap().unwrap(), "first");
        send.send("second".into()).await.unwrap();
        assert_eq!(answer.chunk().await.unwrap().unwrap(), "second");
        drop(send);
        assert_eq!(answer.chunk().await, Ok(None));
    }

    #[tokio::test]
    async fn a_body_that_fails_breaks_the_request_off() {
        let pieces = [Ok(Bytes::from("first")), Err(io::Error::other("the disk is gone"))];
        let request = Request::new(Method::POST, echo_url().await);
        let answer = match request.stream(stream::iter(pieces)).await {
            Ok(answer) => answer.whole().await.map(drop),
            Err(error) => Err(error),
        };
        assert!(answer.is_err());
    }
}
