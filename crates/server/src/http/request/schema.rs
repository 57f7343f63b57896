//! The schemas of bodies and parameters, for the OpenAPI document.

use lockhouse_wire::decode::{Choice, Number, Text};
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{Object, ObjectBuilder, Ref, RefOr, Required};

use super::constraints::RESOURCE;

/// The schema of a rule in the document.
pub(crate) trait RuleSchema {
    fn schema(&self) -> ObjectBuilder;
}

impl RuleSchema for Text {
    fn schema(&self) -> ObjectBuilder {
        let least = (self.least > 0).then_some(self.least);
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(least)
            .max_length(Some(self.most))
            .pattern(self.form.map(|form| form.pattern))
            .examples([json!(self.example)])
    }
}

impl RuleSchema for Number {
    fn schema(&self) -> ObjectBuilder {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(self.least))
            .maximum(Some(self.most))
            .examples([json!(self.example)])
    }
}

impl<T> RuleSchema for Choice<T> {
    fn schema(&self) -> ObjectBuilder {
        let words = self.0.iter().map(|(word, _)| Value::from(*word));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words))
    }
}

/// The schema of a request's body, member by member.
pub(crate) struct ObjectSchema(ObjectBuilder);

impl ObjectSchema {
    pub(crate) fn new(description: &str) -> Self {
        let nothing_else = Some(AdditionalProperties::FreeForm(false));
        Self(ObjectBuilder::new().description(Some(description)).additional_properties(nothing_else))
    }

    /// A member that must be there.
    pub(crate) fn needs(self, key: &str, schema: ObjectBuilder, description: &str) -> Self {
        let member = schema.description(Some(description));
        Self(self.0.property(key, member).required(key))
    }

    /// A member that may be left out, or be `null`.
    pub(crate) fn may(self, key: &str, schema: ObjectBuilder, description: &str) -> Self {
        let member = nullable(schema.description(Some(description)).build());
        Self(self.0.property(key, member))
    }

    /// A member that must be there, whose schema has a name of its own.
    pub(crate) fn needs_named(self, key: &str, name: &str, description: &str) -> Self {
        let member = AllOfBuilder::new().item(Ref::from_schema_name(name)).description(Some(description));
        Self(self.0.property(key, member).required(key))
    }

    /// A list that must be there.
    pub(crate) fn needs_list(
        self,
        key: &str,
        items: impl Into<RefOr<Schema>>,
        most: usize,
        description: &str,
    ) -> Self {
        Self(self.0.property(key, list(items, most, description)).required(key))
    }

    /// A list that may be left out, or be `null`.
    pub(crate) fn may_list(
        self,
        key: &str,
        items: impl Into<RefOr<Schema>>,
        most: usize,
        description: &str,
    ) -> Self {
        let types = SchemaType::from_iter([Type::Array, Type::Null]);
        Self(self.0.property(key, list(items, most, description).schema_type(types)))
    }

    pub(crate) fn example(self, example: Value) -> Self {
        Self(self.0.examples([example]))
    }

    pub(crate) fn build(self) -> RefOr<Schema> {
        self.0.into()
    }
}

/// One of the schemas of these names.
pub(crate) fn one_of_named(names: &[&str], description: &str) -> RefOr<Schema> {
    let one_of = names.iter().fold(OneOfBuilder::new(), |it, name| it.item(Ref::from_schema_name(*name)));
    one_of.description(Some(description)).into()
}

fn nullable(mut member: Object) -> Object {
    if let SchemaType::Type(kind) = member.schema_type {
        member.schema_type = SchemaType::from_iter([kind, Type::Null]);
    }
    // An enumeration has to list its values.
    if let Some(values) = &mut member.enum_values {
        values.push(Value::Null);
    }
    member
}

fn list(items: impl Into<RefOr<Schema>>, most: usize, description: &str) -> ArrayBuilder {
    let items: RefOr<Schema> = items.into();
    ArrayBuilder::new().items(items).min_items(Some(1)).max_items(Some(most)).description(Some(description))
}

pub(crate) fn flag() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

/// A parameter of the query string, as the OpenAPI document describes it.
pub(crate) fn parameter(name: &str, schema: ObjectBuilder, description: &str) -> Parameter {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
    parameter.description(Some(description)).schema(Some(schema.build())).build()
}

/// As [`parameter`], with a schema that has a name of its own.
pub(crate) fn parameter_of(name: &str, schema: &str, description: &str) -> Parameter {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
    parameter.description(Some(description)).schema(Some(Ref::from_schema_name(schema))).build()
}

/// `resource`, as the OpenAPI document describes it.
pub(crate) fn of_resource() -> Parameter {
    let parameter = ParameterBuilder::from(parameter("resource", RESOURCE.schema(), "The resource."));
    parameter.required(Required::True).build()
}

/// `resource` alone.
pub(crate) struct GetParameters;

impl IntoParams for GetParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![of_resource()]
    }
}
