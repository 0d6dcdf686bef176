//! The description of the API.

use crate::{bridge, extender, nodes, recommendations, scores};
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

#[derive(OpenApi)]
#[openapi(
    info(title = "Plimsoll", description = "Suggestions for schedulers that decide themselves"),
    paths(
        scores::scores,
        bridge::status::health,
        bridge::status::status,
        bridge::status::config,
        bridge::cluster::state,
        bridge::cluster::nodes,
        bridge::cluster::node,
        bridge::decisions::decisions,
        bridge::decisions::decision,
        bridge::decisions::pending,
        bridge::decisions::explain,
        bridge::decisions::what_if,
        bridge::status::measures,
        bridge::policies::policies,
        bridge::policies::activate,
        bridge::policies::rollback,
        bridge::policies::load,
        bridge::policies::shadow,
        bridge::policies::end_shadow,
        bridge::policies::trust,
        bridge::rewards::rewards,
        bridge::rewards::reweigh,
        bridge::rewards::preview,
        bridge::training::training,
        bridge::training::trigger,
        bridge::training::save,
        bridge::jobs::job,
        bridge::shelf::recordings,
        bridge::shelf::record,
        bridge::shelf::stop,
        bridge::shelf::experiments,
        bridge::shelf::report,
        bridge::shelf::experiment,
        bridge::events::events,
        bridge::demo::demo,
        bridge::demo::set_pace,
        recommendations::list,
        recommendations::get,
        recommendations::put,
        recommendations::delete,
        nodes::list,
        nodes::metrics,
        extender::filter,
        extender::prioritize,
        extender::preempt,
        extender::bind,
    ),
    modifiers(&Secured),
    security(("token" = [])),
)]
struct Api;

struct Secured;

impl utoipa::Modify for Secured {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        api.components.get_or_insert_default().add_security_scheme("token", scheme);
        // A refusal is a problem as RFC 9457 has it, with that content type.
        let operations = api.paths.paths.values_mut().flat_map(|path| {
            [&mut path.get, &mut path.put, &mut path.post, &mut path.delete].into_iter().filter_map(Option::as_mut)
        });
        for response in operations.flat_map(|operation| operation.responses.responses.iter_mut()) {
            let (status, utoipa::openapi::RefOr::T(response)) = response else { continue };
            if status.starts_with(['4', '5'])
                && let Some(content) = response.content.shift_remove("application/json")
            {
                response.content.insert("application/problem+json".to_owned(), content);
            }
        }
    }
}

/// The description, as an OpenAPI document.
pub fn document() -> Value {
    serde_json::to_value(Api::openapi()).unwrap_or_default()
}
