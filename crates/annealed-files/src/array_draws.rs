//! Reads draws from NumPy arrays.

use crate::array::Array;
use crate::column::{Column, MOST_COLUMNS, choose};
use crate::{Arrays, Draws, listed};

/// Name of the array in a file without names; ArviZ uses the same name.
const UNNAMED: &str = "x";

pub(super) fn take(arrays: Arrays, wanted: Option<&[String]>) -> Result<Draws, String> {
    let mut table = Table::default();
    for (key, array, dimensions) in chosen_arrays(arrays, wanted)? {
        let added = table.add(&key, &array, &dimensions);
        added.map_err(|reason| format!("array {key}: {reason}"))?;
    }
    let chosen = match wanted {
        Some(wanted) => choose(&table.names, wanted)?,
        None => (0..table.names.len()).collect(),
    };
    table.draws(&chosen)
}

/// Variables with the same numbers of chains and draws.
#[derive(Default)]
struct Table {
    shape: Option<[usize; 2]>,
    names: Vec<String>,
    /// For each name, the index of its variable in `variables`, and the place of its number in a draw of this variable.
    columns: Vec<(usize, usize)>,
    variables: Vec<Variable>,
}

/// The numbers of a variable; each draw has `width` numbers.
struct Variable {
    numbers: Vec<f64>,
    width: usize,
}

impl Table {
    fn add(&mut self, key: &str, array: &Array, dimensions: &[usize]) -> Result<(), String> {
        let (found, indices) = split(dimensions)?;
        let expected = *self.shape.get_or_insert(found);
        if found != expected {
            let [[chains, draws], [c, d]] = [found, expected];
            return Err(format!(
                "{chains} chains of {draws} draws, expected {c} of {d}"
            ));
        }
        let width = indices.iter().product();
        if width > MOST_COLUMNS - self.names.len() {
            return Err(format!("more than {MOST_COLUMNS} numbers of a draw"));
        }
        let variable = self.variables.len();
        self.names
            .extend((0..width).map(|place| element(key, indices, place)));
        self.columns
            .extend((0..width).map(|place| (variable, place)));
        let numbers = array.values().collect();
        self.variables.push(Variable { numbers, width });
        Ok(())
    }

    fn draws(&self, chosen: &[usize]) -> Result<Draws, String> {
        let [chains, draws] = self
            .shape
            .ok_or("no arrays, expected one for each variable")?;
        let number = |draw: usize, column: usize| {
            let (variable, place) = self.columns[column];
            let Variable { numbers, width } = &self.variables[variable];
            match numbers[draw * width + place] {
                number if number.is_finite() => Ok(number),
                number => Err(format!(
                    "{} is {number} at draw {} of chain {}, expected a finite number",
                    self.names[column],
                    draw % draws,
                    draw / draws
                )),
            }
        };
        let row = |draw: usize| chosen.iter().map(move |column| number(draw, *column));
        let chain = |chain: usize| (chain * draws..(chain + 1) * draws).flat_map(row).collect();
        let chains = (0..chains).map(chain).collect::<Result<_, String>>()?;
        let names = chosen.iter().map(|column| self.names[*column].clone());
        Ok(Draws::new(names.collect(), chains, 0))
    }
}

/// Returns the arrays of the wanted variables with their dimensions (chains, draws, ..).
fn chosen_arrays(
    mut arrays: Arrays,
    wanted: Option<&[String]>,
) -> Result<Vec<(String, Array, Vec<usize>)>, String> {
    if let Arrays::One(array) = arrays {
        let mut dimensions = array.shape().to_vec();
        if dimensions.len() == 2 {
            dimensions.insert(0, 1);
        }
        if dimensions.len() < 3 {
            return Err(format!(
                "shape {dimensions:?}, expected (draws, parameters) or (chains, draws, parameters)"
            ));
        }
        return Ok(vec![(UNNAMED.into(), array, dimensions)]);
    }
    let mut keys = arrays.keys();
    if let Some(wanted) = wanted {
        let is_of =
            |key: &str, name: &String| Column::of(key).variable == Column::of(name).variable;
        if let Some(name) = wanted
            .iter()
            .find(|name| !keys.iter().any(|key| is_of(key, name)))
        {
            return Err(format!("no array {name}; the file has {}", listed(&keys)));
        }
        keys.retain(|key| wanted.iter().any(|name| is_of(key, name)));
    }
    let mut found = Vec::new();
    for key in keys {
        if let Some(array) = arrays.get(&key)? {
            let dimensions = array.shape().to_vec();
            found.push((key, array, dimensions));
        }
    }
    Ok(found)
}

/// Splits dimensions into the numbers of chains and draws, and the remaining dimensions of one draw.
fn split(dimensions: &[usize]) -> Result<([usize; 2], &[usize]), String> {
    match dimensions {
        _ if dimensions.contains(&0) => Err(format!("shape {dimensions:?} without numbers")),
        [chains, draws, ..] if chains > draws => Err(format!(
            "{chains} chains of {draws} draws by its shape {dimensions:?}, expected (chains, draws, ..)"
        )),
        [chains, draws, rest @ ..] => Ok(([*chains, *draws], rest)),
        _ => Err(format!(
            "shape {dimensions:?}, expected (chains, draws, ..)"
        )),
    }
}

/// Returns the name of an element, such as `theta[0,1]`; the last index runs fastest. A scalar keeps its own name.
fn element(key: &str, dimensions: &[usize], place: usize) -> String {
    let mut rest = place;
    let indices = dimensions.iter().rev().map(|size| {
        let index = rest % size;
        rest /= size;
        index.to_string()
    });
    let mut indices = Vec::from_iter(indices);
    indices.reverse();
    match indices.is_empty() {
        true => key.to_owned(),
        false => format!("{key}[{}]", indices.join(",")),
    }
}
