//! The names of columns of draws.

use std::collections::{HashMap, HashSet};

use crate::listed;

/// Largest number of columns in a file. Their names take more memory than the file's text.
pub(super) const MOST_COLUMNS: usize = 1 << 20;

/// The variable and the indices in a column's name. `theta.1.2` (CmdStan) equals `theta[1,2]` (ArviZ, posterior).
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Column<'n> {
    pub(super) variable: &'n str,
    indices: Vec<&'n str>,
}

impl<'n> Column<'n> {
    pub(super) fn of(name: &'n str) -> Self {
        if let Some((variable, indices)) = name.strip_suffix(']').and_then(|n| n.split_once('[')) {
            let indices = indices.split(',').map(str::trim).collect();
            return Self { variable, indices };
        }
        let base = name
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
            .len();
        let variable = name[base..]
            .find('.')
            .map_or(name, |dot| &name[..base + dot]);
        let indices = name[variable.len()..].split('.').skip(1).collect();
        Self { variable, indices }
    }

    /// Returns true if `other` is this column or an element of this variable.
    fn holds(&self, other: &Self) -> bool {
        self.variable == other.variable && other.indices.starts_with(&self.indices)
    }
}

/// Returns the places of the columns with the wanted names, in the order of `wanted`.
pub(super) fn choose(names: &[String], wanted: &[String]) -> Result<Vec<usize>, String> {
    if wanted.is_empty() {
        return Err("no names of columns, expected at least one".into());
    }
    let columns = Vec::from_iter(names.iter().map(|name| Column::of(name)));
    let places: HashMap<_, _> = columns.iter().zip(0..).collect();
    let mut chosen = Vec::new();
    for name in wanted {
        let wanted = Column::of(name);
        match places.get(&wanted) {
            Some(place) => chosen.push(*place),
            None => {
                let before = chosen.len();
                chosen.extend((0..columns.len()).filter(|place| wanted.holds(&columns[*place])));
                if chosen.len() == before {
                    return Err(format!("no column {name}; the file has {}", listed(names)));
                }
            }
        }
    }
    let mut sorted = chosen.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!(
            "column {} is chosen twice, by {}",
            names[pair[0]],
            listed(wanted)
        )),
        None => Ok(chosen),
    }
}

/// Refuses two columns with the same name.
pub(super) fn check_different(names: &[String]) -> Result<(), String> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(Column::of(name))) {
        Some(name) => Err(format!("two columns {name}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_elements() {
        for (name, variable, indices) in [
            ("mu", "mu", &[][..]),
            ("theta.1", "theta", &["1"]),
            ("theta.10.2", "theta", &["10", "2"]),
            ("theta[1]", "theta", &["1"]),
            ("theta[1, 2]", "theta", &["1", "2"]),
            ("theta[Choate]", "theta", &["Choate"]),
            ("x2", "x2", &[]),
            ("x2.3", "x2", &["3"]),
            ("my.var", "my.var", &[]),
            ("my.var.1", "my.var", &["1"]),
            ("lp__", "lp__", &[]),
            ("x:1", "x:1", &[]),
            ("7", "7", &[]),
            ("", "", &[]),
            ("größe.1", "größe", &["1"]),
        ] {
            let column = Column::of(name);
            assert_eq!(
                (column.variable, &column.indices[..]),
                (variable, indices),
                "{name}"
            );
        }
    }

    #[test]
    fn columns_are_chosen_by_name_and_by_variable() {
        let names = [
            "lp__",
            "mu",
            "theta.1.1",
            "theta.2.1",
            "theta.1.2",
            "theta2",
        ]
        .map(String::from);
        let choose = |wanted: &[&str]| {
            choose(
                &names,
                &Vec::from_iter(wanted.iter().map(|w| w.to_string())),
            )
        };
        for (wanted, places) in [
            (&["theta"][..], &[2, 3, 4][..]),
            (&["theta[1]"], &[2, 4]),
            (&["theta[2,1]", "mu"], &[3, 1]),
            (&["lp__"], &[0]),
            (&["theta2", "theta.1.2"], &[5, 4]),
        ] {
            assert_eq!(choose(wanted).unwrap(), places, "{wanted:?}");
        }
        assert_eq!(
            choose(&["tau"]).unwrap_err(),
            "no column tau; the file has lp__, mu, theta.1.1, theta.2.1, theta.1.2, theta2"
        );
        assert_eq!(
            choose(&["theta", "theta.2.1"]).unwrap_err(),
            "column theta.2.1 is chosen twice, by theta, theta.2.1"
        );
        assert!(choose(&["thet"]).is_err());
        assert!(choose(&[]).unwrap_err().starts_with("no names"));
    }
}
