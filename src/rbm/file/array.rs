//! An array of numbers, read from a file.

use crate::rbm::file::dtype::Dtype;

/// An array whose bytes are as many as its shape needs, the last dimension running fastest.
#[derive(Debug, Clone)]
pub(super) struct Array {
    shape: Vec<usize>,
    dtype: Dtype,
    data: Vec<u8>,
}

impl Array {
    /// From bytes with the last dimension running fastest, or the first one in Fortran's order.
    pub(super) fn new(
        shape: Vec<usize>,
        dtype: Dtype,
        fortran_order: bool,
        data: Vec<u8>,
    ) -> Result<Self, String> {
        let length = shape
            .iter()
            .try_fold(dtype.width, |n, &size| n.checked_mul(size));
        if length != Some(data.len()) {
            let found = data.len();
            return Err(format!(
                "{found} bytes of data for shape {shape:?} of {dtype}"
            ));
        }
        let data = match fortran_order && shape.len() > 1 {
            true => last_dimension_fastest(&shape, dtype.width, &data),
            false => data,
        };
        Ok(Self { shape, dtype, data })
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(super) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The numbers, the last dimension running fastest.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let words = self.data.chunks_exact(self.dtype.width);
        words.map(|word| self.dtype.number(word))
    }

    /// The numbers in rows, the first dimension's; the others are taken together.
    ///
    /// # Errors
    /// Where there is no second dimension, or no number.
    pub(super) fn rows(&self) -> Result<impl Iterator<Item = impl Iterator<Item = f64>>, String> {
        let shape = &self.shape;
        let (true, Some(&count @ 1..)) = (shape.len() > 1 && !self.data.is_empty(), shape.first())
        else {
            return Err(format!("shape {shape:?}, expected rows of numbers (N, D)"));
        };
        let rows = self.data.chunks_exact(self.data.len() / count);
        Ok(rows.map(|row| {
            let words = row.chunks_exact(self.dtype.width);
            words.map(|word| self.dtype.number(word))
        }))
    }
}

/// The numbers, of which the first dimension runs fastest, in the other order.
fn last_dimension_fastest(shape: &[usize], width: usize, data: &[u8]) -> Vec<u8> {
    let mut reordered = Vec::with_capacity(data.len());
    let mut index = vec![0; shape.len()];
    while reordered.len() < data.len() {
        let places = index.iter().zip(shape).rev();
        let place = places.fold(0, |place, (i, size)| place * size + i);
        reordered.extend_from_slice(&data[place * width..][..width]);
        for (i, size) in index.iter_mut().zip(shape).rev() {
            *i = (*i + 1) % size;
            if *i > 0 {
                break;
            }
        }
    }
    reordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_in_fortran_order() {
        // numpy.arange(12).reshape(2, 3, 2).ravel("F")
        let data = vec![0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11];
        let array = Array::new(vec![2, 3, 2], Dtype::BYTE, true, data).unwrap();
        assert!(array.values().eq((0..12).map(f64::from)));
        let rows: Vec<Vec<f64>> = array.rows().unwrap().map(Iterator::collect).collect();
        assert_eq!(rows[1], [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    }

    #[test]
    fn bytes_that_do_not_fit_the_shape() {
        for shape in [vec![], vec![3, 2], vec![usize::MAX, 2], vec![0, usize::MAX]] {
            let array = Array::new(shape.clone(), Dtype::BYTE, true, vec![0; 5]);
            assert!(array.unwrap_err().contains("5 bytes"), "{shape:?}");
        }
        for shape in [vec![], vec![1], vec![1, 0], vec![0, 1]] {
            let data = vec![0; shape.iter().product()];
            let array = Array::new(shape.clone(), Dtype::BYTE, false, data).unwrap();
            assert!(array.rows().is_err(), "{shape:?}");
        }
    }
}
