//! Doing something in a session that may not be there yet.

use super::{Client, ClientError};
use shellkeep_protocol::{CreateSessionRequest, Session};

impl Client {
    /// Does something in a session, and makes the session first if there is none: in the directory we are in, or with
    /// `workspace` in one of its own.
    pub async fn in_session<T>(
        &mut self,
        session: &str,
        workspace: bool,
        act: impl AsyncFn(&mut Self) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        match act(self).await {
            Err(ClientError::Refused(problem)) if problem.code == "session_not_found" => {}
            done => return done,
        }
        let here = if workspace { None } else { std::env::current_dir().ok() };
        let create = CreateSessionRequest {
            session_id: Some(session.to_owned()),
            cwd: here.and_then(|path| path.into_os_string().into_string().ok()),
            ..CreateSessionRequest::default()
        };
        self.post::<_, Session>("/v1/sessions", &create).await?;
        act(self).await
    }
}
