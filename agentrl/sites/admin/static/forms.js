// Empty fields of a search stay out of the address.
for (const form of document.querySelectorAll('form:not([method])')) {
  form.addEventListener('formdata', (event) => {
    for (const [name, value] of [...event.formData]) {
      if (value === '') event.formData.delete(name);
    }
  });
}
// The box in a grid's head selects all rows of the page.
for (const all of document.querySelectorAll('input.all')) {
  all.addEventListener('change', () => {
    for (const box of all.form.querySelectorAll('input[name=ids]')) {
      box.checked = all.checked;
    }
  });
}
